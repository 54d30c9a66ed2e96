where case:
  st_dunders.where: []
sls case:
  st_dunders.sls: []
own_id case:
  st_dunders.own_id: []
low_values case:
  st_dunders.low_values:
    - extra: more
running case:
  st_dunders.running: []
running_values case:
  st_dunders.running_values: []
instance case:
  st_dunders.instance: []
lowstate case:
  st_dunders.lowstate: []
names case:
  st_dunders.names: []
known case:
  st_dunders.known: []
context case:
  st_dunders.context: []
context_of_module case:
  st_dunders.context_of_module: []
utils case:
  st_dunders.utils: []
modules case:
  st_dunders.modules: []
requisites:
  st_dunders.reqs:
    - require:
      - st_dunders: known case
    - watch:
      - st_dunders: utils case
low case:
  st_dunders.low:
    - extra: more
    - require:
      - st_dunders: known case
