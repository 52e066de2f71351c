# want: CE
def f(:
