include:
  - plain
extend:
  first:
    st_plain:
      - value: extended
use it:
  st_plain.present:
    - use:
      - st_plain: first
required in:
  st_plain.present:
    - require_in:
      - st_plain: first
by sls:
  st_plain.present:
    - require:
      - sls: plain
