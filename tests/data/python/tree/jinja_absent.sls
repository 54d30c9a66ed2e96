x:
  test.nop:
    - name: {{ salt['corpus.absent']() }}
