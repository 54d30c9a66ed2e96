colour: blue
deep:
  er:
    number: 7
    list: [1, two, 3.5]
empty: ''
nothing: null
flag: true
