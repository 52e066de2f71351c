# stdin: "3 4\n"
# stdout: "7\n"
def main():
    return sum(map(int, input().split()))
if __name__ == "__main__":
    answer = main()
print(answer)
