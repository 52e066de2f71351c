package refusal

import (
	"net/http"
	"strings"
)

// Methods are those that the patterns of a mux answer the path of a request with. A pattern without a method says nothing of them: it
// hands on to who knows, and rest is that of what no other takes.
func Methods(mux *http.ServeMux, r *http.Request, rest string) (all []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		asked := *r
		asked.Method = method
		if _, pattern := mux.Handler(&asked); strings.Contains(pattern, " ") && pattern != rest {
			all = append(all, method)
		}
	}
	return all
}

// Method is the refusal of a method where the path has others: it sets the header that says which. It is nil where there are none.
func Method(w http.ResponseWriter, r *http.Request, methods []string) error {
	if len(methods) == 0 {
		return nil
	}
	there := strings.Join(methods, ", ")
	w.Header().Set("Allow", there)
	return Errorf(http.StatusMethodNotAllowed, "%s is no method of %.200s; send %s", r.Method, r.URL.Path, strings.Join(methods, " or "))
}
