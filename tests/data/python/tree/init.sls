one:
  st_init.run: []
two:
  st_init.run: []
three:
  st_init_false.run: []
four:
  st_init_false.run: []
