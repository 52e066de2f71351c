# stdin: "3 4\n"
# stdout: "7\n"
# -*- coding: utf-8 -*-
print(sum(map(int, input().split())))
