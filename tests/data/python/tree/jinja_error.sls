x:
  test.nop:
    - name: {{ salt['errors.command']() }}
