{% set port = salt['pillar.get']('web:port', 80) %}
nginx:
  pkg.installed: []
  service.running:
    - watch:
      - file: /etc/nginx/nginx.conf

/etc/nginx/nginx.conf:
  file.managed:
    - source: salt://web/nginx.conf
    - context:
        port: {{ port }}
        id: {{ salt.mysites.name(grains.id) }}
        cert: {{ '/etc/cert' | file_hashsum }}

site:
  mysites.present:
    - name: web
  module.run:
    - name: nosuch.reload
