base:
  '*':
    - corpus
    - python
    - rendered
