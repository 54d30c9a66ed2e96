leave case:
  st_raise.leave: []
after it:
  st_plain.present: []
