#!jinja|swap XX yy|stream|yaml
swapped:
  test.nop:
    - name: XX {{ grains.kernel }} LATER
