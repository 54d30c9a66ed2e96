first:
  st_plain.present:
    - value: one
second:
  st_plain.changed: []
long form:
  st_plain:
    - present
    - name: long
