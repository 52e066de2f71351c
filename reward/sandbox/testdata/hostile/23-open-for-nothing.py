# want: OK
# stdout: "denied denied denied written\n"
# Neither to read nor to write is a way to open a file that landlock has no word in, and one that is read must not be emptied by that.
import os
open("own", "w").write("1")
for flags in (os.O_TRUNC, 3, 3 | os.O_TRUNC):
    try:
        os.close(os.open("own", flags))
        print("opened", end=" ")
    except OSError:
        print("denied", end=" ")
os.close(os.open("own", os.O_RDWR | os.O_TRUNC))
open("own", "w").write("written")
print(open("own").read())
