made:
  st_test.present: []
ignores:
  st_test.ignores: []
module sees:
  st_test.module_sees: []
