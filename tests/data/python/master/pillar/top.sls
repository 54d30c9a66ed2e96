base:
  '*':
    - plain
    - code
    - pairs
