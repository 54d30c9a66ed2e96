warnings:
  st_warn.warnings: []
pchanges:
  st_warn.pchanges: []
sub:
  st_warn.sub_state: []
retried:
  st_retry.second:
    - retry:
        attempts: 3
        interval: 0
        until: true
decorated:
  st_decorated.run:
    - word: given
checked:
  st_check.run:
    - onlyif: false
unless:
  st_plain.present:
    - unless: 'true'
onlyif function:
  st_plain.present:
    - onlyif:
      - fun: shape_plain.add
        a: 1
        b: 2
unless function:
  st_plain.present:
    - unless:
      - fun: virt_named.run
check_cmd:
  st_plain.present:
    - check_cmd:
      - 'false'
slot:
  st_plain.present:
    - value: __slot__:salt:shape_plain.greet(slot)
