#!jinja|yaml|mine
of yaml:
  test.nop:
    - name: {{ grains.kernel }}
