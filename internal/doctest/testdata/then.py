total * 2
