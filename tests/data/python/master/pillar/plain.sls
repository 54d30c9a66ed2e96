plain: {yes_it_is: true}
