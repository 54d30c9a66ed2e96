corpus_by_state:
  st_environment.set_grain:
    - value: from a state
see grain:
  st_environment.see_grain:
    - name: corpus_by_state
CORPUS_BY_STATE:
  st_environment.set_variable:
    - value: from a state
see variable:
  st_environment.see_variable:
    - name: CORPUS_BY_STATE
native sees variable:
  cmd.run:
    - name: echo $CORPUS_BY_STATE
