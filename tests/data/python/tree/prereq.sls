before:
  st_plain.present:
    - prereq:
      - st_test: changes
changes:
  st_test.present: []
