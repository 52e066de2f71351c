// Package given has what an exported function wants of arguments that it cannot do without: where a program forgot one, or gave a number
// that can be none, it is told at the door, by its name, and not by a panic in the depth.
package given

import (
	"fmt"
	"reflect"
)

// expected says what an argument of that name is, as functions of the module name theirs.
var expected = map[string]string{
	"ctx":    "a context, such as context.Background()",
	"cfg":    "settings, such as those that configs.Load makes",
	"b":      "a backend, such as device.Open opens",
	"p":      "a policy, such as model.Open opens",
	"a":      "an adapter, such as lora.New makes",
	"l":      "a layout, such as lora.NewLayout makes",
	"served": "an adapter that Serve has given",
	"s":      "a state, such as new(optim.State)",
}

// All panics where an argument of a function is nil. Each stands behind its name.
func All(function string, arguments ...any) {
	for i := 0; i+1 < len(arguments); i += 2 {
		if missing(arguments[i+1]) {
			name := arguments[i].(string)
			panic(fmt.Sprintf("%s: the argument %s is nil, expected %s", function, name, expected[name]))
		}
	}
}

// Between panics where a number that a function was given is not one of from to to.
func Between(function, name string, n, from, to int) {
	if n < from || n > to {
		panic(fmt.Sprintf("%s: %s is %d, expected %d to %d", function, name, n, from, to))
	}
}

// missing tells whether there is nothing, in an interface either.
func missing(argument any) bool {
	if argument == nil {
		return true
	}
	v := reflect.ValueOf(argument)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
