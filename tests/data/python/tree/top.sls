base:
  'python':
    - match: corpus
    - plain
  'other':
    - match: corpus
    - fails
