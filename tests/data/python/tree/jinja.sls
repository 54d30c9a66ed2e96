{%- set greeted = salt['shape_plain.greet']('jinja') %}
{%- set kinds = salt['kinds.ordered']() %}
{{ greeted }}:
  test.nop:
    - name: {{ salt.virt_named.run() }}
kinds:
  test.nop:
    - name: {{ kinds.keys() | list | join(' ') }} {{ salt['kinds.pair']()[0] }} {{ salt['kinds.moment']() }}
point:
  test.nop:
    - name: {{ salt['kinds.mapping']().a }} {{ salt['gen.count']() | list }} {{ 'corpus.absent' in salt }} {{ 'virt_true.run' in salt }}
grain:
  test.nop:
    - name: {{ grains['corpus_map']['k']['d'] }} {{ pillar['corpus_swapped'] }} {{ grains.get('corpus:colon') }}
page:
  file.managed:
    - name: {{ opts['corpus_dir'] }}/page
    - source: salt://files/page.jinja
    - template: jinja
