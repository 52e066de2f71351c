# stdin: "3 4\n"
# stdout: "20001\n"
# cpu: 2000
print(len(str(10**20000)))
