before:
  st_plain.present: []
no result:
  st_malformed.no_result: []
text:
  st_malformed.text: []
after:
  st_plain.present: []
