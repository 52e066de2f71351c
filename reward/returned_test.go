package reward

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// answer is a program with the function answer, the expected value, and the verdict that it deserves.
type answer struct {
	code, expected string
	want           Verdict
}

// completion has two tests, which expect the same value.
func (a answer) completion() Completion {
	test := func(arg string) data.Test {
		return data.Test{Args: []json.RawMessage{json.RawMessage(arg)}, Returns: json.RawMessage(a.expected)}
	}
	p := data.Problem{ID: a.expected, Kind: data.Call, FuncName: "answer"}.WithTests(test("1"), test("2"))
	return Completion{Problem: &p, Text: fenced(a.code)}
}

func returning(expression string) string { return "def answer(n):\n    return " + expression }

// returned are values of types that JSON lacks. A subclass of a plain type counts as that type, at every
// depth; a value that could only be converted to a plain type is no answer.
var returned = map[string]answer{
	"tuple":                  {returning("(1, 2)"), "[1, 2]", AC},
	"list of tuples":         {returning("[(1, 2), (3,), ()]"), "[[1, 2], [3], []]", AC},
	"tuple of lists":         {returning("([1, 2], [3])"), "[[1, 2], [3]]", AC},
	"tuple in a dict":        {returning("{'a': (1, (2,))}"), `{"a": [1, [2]]}`, AC},
	"tuple of another order": {returning("(2, 1)"), "[1, 2]", WA},
	"tuple around it":        {returning("(3,)"), "3", WA},
	"named tuple":            {returning("namedtuple('P', 'x y')(1, 2)"), "[1, 2]", AC},
	"list subclass":          {"class L(list): pass\n" + returning("L([1, L([2])])"), "[1, [2]]", AC},
	"int subclass":           {"class I(int): pass\n" + returning("[I(3)]"), "[3]", AC},
	"int subclass with repr": {"class I(int):\n    def __repr__(self): return 'I'\n    __str__ = __repr__\n" + returning("I(3)"), "3", AC},
	"float subclass":         {"class F(float): pass\n" + returning("F(0.5)"), "0.5", AC},
	"str subclass":           {"class S(str): pass\n" + returning("S('é')"), `"é"`, AC},
	"IntEnum":                {"from enum import IntEnum\nclass E(IntEnum):\n    three = 3\n" + returning("E.three"), "3", AC},
	"bool for an int":        {returning("[True, False]"), "[1, 0]", AC},
	"float for an int":       {returning("[3.0, 1e3]"), "[3, 1000]", AC},
	"Counter":                {returning("Counter('aab')"), `{"a": 2, "b": 1}`, AC},
	"defaultdict":            {"d = defaultdict(list)\nd['a'].append(1)\n" + returning("d"), `{"a": [1]}`, AC},
	"OrderedDict": {"from collections import OrderedDict\n" + returning("OrderedDict([('b', 1), ('a', 2)])"), `{"a": 2, "b": 1}`,
		AC},
	"int keys":      {returning("{1: 2, 3: 4}"), `{"1": 2, "3": 4}`, AC},
	"reversed list": {returning("[3, 2, 1][::-1]"), "[1, 2, 3]", AC},

	"__index__": {"class I:\n    def __index__(self): return 3\n    __int__ = __index__\n" + returning("I()"), "3", WA},
	"__float__": {"class F:\n    def __float__(self): return 0.5\n" + returning("F()"), "0.5", WA},
	"__iter__": {"class L:\n    def __iter__(self): return iter([1, 2])\n    def __len__(self): return 2\n" + returning("L()"),
		"[1, 2]", WA},
	"tolist":          {"class A:\n    def tolist(self): return [1, 2]\n" + returning("A()"), "[1, 2]", WA},
	"generator":       {returning("(x for x in (1, 2))"), "[1, 2]", WA},
	"yields":          {"def answer(n):\n    yield 1\n    yield 2", "[1, 2]", WA},
	"map":             {returning("map(int, '12')"), "[1, 2]", WA},
	"range":           {returning("range(1, 3)"), "[1, 2]", WA},
	"reversed":        {returning("reversed([2, 1])"), "[1, 2]", WA},
	"dict view":       {returning("{1: 0, 2: 0}.keys()"), "[1, 2]", WA},
	"view of values":  {returning("{'a': 1}.values()"), "[1]", WA},
	"view in a list":  {returning("[{'a': 1}.items()]"), `[[["a", 1]]]`, WA},
	"set":             {returning("{1, 2}"), "[1, 2]", WA},
	"deque":           {returning("deque([1, 2])"), "[1, 2]", WA},
	"bytes":           {returning("b'ab'"), `"ab"`, WA},
	"array":           {"from array import array\n" + returning("array('i', [1, 2])"), "[1, 2]", WA},
	"Decimal":         {"from decimal import Decimal\n" + returning("Decimal(3)"), "3", WA},
	"Fraction":        {"from fractions import Fraction\n" + returning("Fraction(3)"), "3", WA},
	"complex":         {returning("3 + 0j"), "3", WA},
	"str for an int":  {returning("'3'"), "3", WA},
	"Ellipsis":        {returning("..."), "null", WA},
	"circle":          {"x = []\nx.append(x)\n" + returning("x"), "[]", WA},
	"None for a list": {returning("None"), "[]", WA},
}

// returnedByNumpy are values of numpy's types, which programs that use it often return.
var returnedByNumpy = map[string]answer{
	"int64":                  {returning("np.int64(3)"), "3", AC},
	"uint8":                  {returning("np.uint8(255)"), "255", AC},
	"largest":                {returning("np.iinfo(np.uint64).max"), "18446744073709551615", AC},
	"float64":                {returning("np.float64(0.1)"), "0.1", AC},
	"float64 of an int":      {returning("np.float64(3)"), "3", AC},
	"float32":                {returning("np.float32(0.5)"), "0.5", AC},
	"bool_":                  {returning("[np.bool_(True), np.int64(1) > 2]"), "[true, false]", AC},
	"str_":                   {returning("np.str_('é')"), `"é"`, AC},
	"sum":                    {returning("np.array([1, 2]).sum()"), "3", AC},
	"mean":                   {returning("np.mean([1, 2])"), "1.5", AC},
	"array":                  {returning("np.array([1, 2])"), "[1, 2]", AC},
	"array of floats":        {returning("np.array([1, 2.5])"), "[1, 2.5]", AC},
	"matrix":                 {returning("np.array([[1, 2], [3, 4]])"), "[[1, 2], [3, 4]]", AC},
	"array without axes":     {returning("np.array(3)"), "3", AC},
	"empty array":            {returning("np.array([])"), "[]", AC},
	"array of objects":       {returning("np.array([10 ** 30, None], dtype=object)"), "[1000000000000000000000000000000, null]", AC},
	"numbers in a list":      {returning("[np.int64(1), 2, np.float64(0.5)]"), "[1, 2, 0.5]", AC},
	"arrays in a tuple":      {returning("(np.arange(2), [np.zeros(1)])"), "[[0, 1], [[0.0]]]", AC},
	"numbers in a dict":      {returning("{'a': np.int64(1), 'b': np.ones(2)}"), `{"a": 1, "b": [1, 1]}`, AC},
	"method":                 {"class Solution:\n    def answer(self, n): return np.argmax([0, 5, n])", "1", AC},
	"wrong":                  {returning("np.int64(4)"), "3", WA},
	"array of another order": {returning("np.array([2, 1])"), "[1, 2]", WA},
	"array around it":        {returning("np.array([3])"), "3", WA},
	"nan":                    {returning("np.nan"), "0", WA},
	"complex":                {returning("np.complex128(3)"), "3", WA},
	"iterator":               {returning("np.nditer(np.array([1, 2]))"), "[1, 2]", WA},
}

// TestNumpy runs if there is an interpreter with numpy. Programs whose answers are tested find it preloaded, the others
// import it in their own process.
func TestNumpy(t *testing.T) {
	race.SkipCovered(t)
	t.Parallel()
	python := pythonWithNumpy(t)
	open := func(preload string) *Judge {
		pool, err := sandbox.Open(t.Context(), sandbox.Options{Python: python, Preload: preload})
		if badinput.Is(err) {
			t.Skip(err)
		}
		require.NoError(t, err)
		t.Cleanup(func() { pool.Close() })
		return NewJudge(correct(t), pool, nil, nil)
	}
	j := open("import numpy")
	for name, a := range returnedByNumpy {
		a.code = "import numpy as np\n" + a.code
		s := grade(t, j, a.completion())
		require.Equal(t, a.want, s.Verdict, "%s: %s", name, s.Note)
	}
	j = open("")
	for _, code := range []string{
		"import numpy as np\nprint(np.array(input().split(), dtype=np.int64).sum())",
		"import sys\nfrom numpy import *\nprint(loadtxt(sys.stdin, dtype=int).sum())",
	} {
		require.Equal(t, AC, grade(t, j, Completion{Problem: sumProblem(), Text: fenced(code)}).Verdict, code)
	}
}

func pythonWithNumpy(t *testing.T) string {
	for _, python := range []string{"python3", "/usr/bin/python3", "/usr/local/bin/python3"} {
		if exec.Command(python, "-s", "-B", "-c", "import numpy").Run() == nil {
			return python
		}
	}
	t.Skip("no python3 here has numpy")
	return ""
}
