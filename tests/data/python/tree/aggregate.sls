a:
  st_aggregate.gather:
    - aggregate: true
b:
  st_aggregate.gather:
    - aggregate: true
    - together: [x]
c:
  st_aggregate.gather: []
