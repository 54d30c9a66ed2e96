with required:
  st_arguments.required:
    - must: given
optional:
  st_arguments.optional:
    - a: 5
    - own: x
    - require:
      - st_arguments: with required
keys:
  st_arguments.all_keys:
    - own: x
    - order: 10
types:
  st_arguments.types:
    - a_int: 1
    - a_text: text
    - a_list: [1, {k: v}]
    - a_map: {k: v}
    - a_none: null
    - a_float: 1.5
    - a_date: 2024-02-29
    - a_bool: yes
engine:
  st_arguments.engine:
    - failhard: false
    - timeout: 3
    - require:
      - st_arguments: types
stars:
  st_arguments.stars:
    - own: 1
    - own_two: 2
several:
  st_arguments.listing:
    - names:
      - one
      - two:
        - listed: [2]
mapped:
  st_arguments.mapping:
    - mapping:
        a: 1
        b: [x]
mapped listed:
  st_arguments.mapping:
    - mapping:
      - a: 1
      - b: 2
absent function:
  st_arguments.absent: []
private function:
  st_plain._private: []
