# stdin: "\u00e9\u4e2d\ud83d\ude00\n"
# stdout: "\ud83d\ude00\u4e2d\u00e9\n"
print(input()[::-1])
