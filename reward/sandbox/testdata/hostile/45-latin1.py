# want: CE
x = 'ÿ'
