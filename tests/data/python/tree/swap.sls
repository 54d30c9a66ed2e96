#!swap AA test BB nop|yaml
swapped:
  AA.BB:
    - name: words
