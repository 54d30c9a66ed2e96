never:
  st_test.module_sees:
    - test: false
