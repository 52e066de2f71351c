package syntax

// The expressions of a template.
type (
	// Literal has a nil, a bool, an int, a float64 or a string.
	Literal  struct{ Value any }
	Variable struct{ Name string }
	// Choice is a if b else c; Otherwise may be nil.
	Choice struct{ Then, Test, Otherwise Expr }
	// Logic is and, or.
	Logic struct {
		A, B Expr
		Or   bool
	}
	Negation struct{ Of Expr }
	// Comparison is a < b <= c.
	Comparison struct {
		First Expr
		Rest  []Compared
	}
	Compared struct {
		Op string
		To Expr
	}
	// Listing is [a, b] or (a, b).
	Listing struct {
		Items []Expr
		Tuple bool
	}
	// Mapping is {a: b}.
	Mapping struct{ Keys, Values []Expr }
	// Arithmetic is + - * / // % ** and ~.
	Arithmetic struct {
		Op   string
		A, B Expr
	}
	// Attribute is a.name, Item is a[key].
	Attribute struct {
		Of   Expr
		Name string
	}
	Item struct{ Of, Key Expr }
	// Slicing is a[from:to:step]; any of the parts may be nil.
	Slicing struct {
		Of    Expr
		Parts [3]Expr
	}
	Call struct {
		Of Expr
		Arguments
	}
	// Filtered is a|name(…); Of is nil in {% filter … %}.
	Filtered struct {
		Of   Expr
		Name string
		Arguments
	}
	// Tested is a is name(…).
	Tested struct {
		Of   Expr
		Name string
		Arguments
	}
	// Arguments are the arguments of a call; Names are the names of the last of them.
	Arguments struct {
		List  []Expr
		Names []string
	}
)

// The statements of a template.
type (
	// Printed is text, or {{ … }}.
	Printed   struct{ Of Expr }
	Condition struct {
		Test            Expr
		Then, Otherwise []Statement
	}
	For struct {
		Target          []Target
		Over, Only      Expr // Only may be nil
		Body, Otherwise []Statement
		Recursive       bool
	}
	// Jump is {% break %} (Out) or {% continue %}.
	Jump struct{ Out bool }
	// Assignment is {% set a = b %}, or {% set a %}…{% endset %} where Value is nil.
	Assignment struct {
		Targets []Target
		Value   Expr
		Body    []Statement
	}
	// Target is an assigned name, or a field of a namespace.
	Target struct{ Name, Field string }
	// Macro has a default, or nil, for each parameter.
	Macro struct {
		Name     string
		Names    []string
		Defaults []Expr
		Body     []Statement
	}
	// CallBlock is {% call f(…) %}…{% endcall %}.
	CallBlock struct {
		Caller *Macro
		Call   *Call
	}
	FilterBlock struct {
		Filter *Filtered
		Body   []Statement
	}
	// With is {% with a = b %}.
	With struct {
		Names  []string
		Values []Expr
		Body   []Statement
	}
	// Scoped has a scope of its own.
	Scoped struct{ Body []Statement }
)
