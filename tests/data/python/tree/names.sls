named:
  st_named.run: []
by file name:
  st_virtual.run: []
'false':
  st_virtual_false.run: []
false named:
  st_gone.run: []
aliased:
  st_aliased.set:
    - value: x
aliased wrongly:
  st_aliased.set_: []
added to test:
  test.corpus_state: []
native nop:
  test.nop: []
replaced:
  environ.setenv:
    - value: v
package:
  st_pack.run: []
broken:
  st_broken.run: []
broken syntax:
  st_broken_syntax.run: []
no such module:
  st_nowhere.run: []
