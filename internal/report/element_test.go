package report

import (
	_ "embed"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// element is an element of a page, which is parsed as XML.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Inner   []element  `xml:",any"`
	Text    string     `xml:",chardata"`
}

func parse(t *testing.T, page string) *element {
	t.Helper()
	var root element
	d := xml.NewDecoder(strings.NewReader(page))
	require.NoError(t, d.Decode(&root))
	_, err := d.Token()
	for err == nil {
		_, err = d.Token()
	}
	require.Equal(t, io.EOF, err)
	return &root
}

func (e *element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// all returns the elements of a name, and of a class if given, in document order.
func (e *element) all(name, class string) (found []*element) {
	if e.XMLName.Local == name && (class == "" || strings.Contains(" "+e.attr("class")+" ", " "+class+" ")) {
		found = append(found, e)
	}
	for i := range e.Inner {
		found = append(found, e.Inner[i].all(name, class)...)
	}
	return found
}

// read returns the text of an element and its descendants; the order of mixed content is lost.
func (e *element) read() string {
	words := []string{e.Text}
	for i := range e.Inner {
		words = append(words, e.Inner[i].read())
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

func readAll(elements []*element) (texts []string) {
	for _, e := range elements {
		texts = append(texts, e.read())
	}
	return texts
}
