# want: CE
# -*- coding: no-such-coding -*-
