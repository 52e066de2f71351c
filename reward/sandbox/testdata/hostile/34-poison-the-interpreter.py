# want: RTE
# stdout: ""
import os, sys, sysconfig
places = [os.path.dirname(os.__file__), sys.prefix, sysconfig.get_paths()["purelib"], "/usr/lib", "/", "/dev", "/etc", os.path.dirname(sys.executable)]
for place in places:
    for name in ("sitecustomize.py", "usercustomize.py", "__pycache__/os.cpython-311.pyc", "poison.pth"):
        try:
            open(os.path.join(place, name), "w").write("print('poison')")
            print("wrote", place, name)
        except OSError:
            pass
open(os.__file__, "a")
