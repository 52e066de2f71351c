package display

import (
	"html/template"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

var refusal = template.Must(Template("refuse.html").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'" />
<title>grpo: {{.Why}}</title>
<style>{{template "page.css"}}</style>
</head>
<body>
<main>
<p class="eyebrow">{{if .Home}}<a href="/">grpo runs</a>{{else}}grpo{{end}}</p>
<h1>{{.Sentence}}</h1>
</main>
</body>
</html>
`))

// HTTPError answers with an error. A browser gets a page, which links to the list of runs if something was not found; others get plain
// text.
func HTTPError(w http.ResponseWriter, r *http.Request, code int, why string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, why, code)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	why = Visible(why)
	first, size := utf8.DecodeRuneInString(why)
	refusal.Execute(w, struct {
		Why, Sentence string
		Home          bool
	}{why, string(unicode.ToUpper(first)) + why[size:], code == http.StatusNotFound})
}
