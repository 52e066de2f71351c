package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// resultText is a result as text for the model: text parts as they are, other parts described.
func resultText(r *sdk.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		if text := content(c); strings.TrimSpace(text) != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if text, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(text))
		}
	}
	text := strings.Join(parts, "\n")
	switch {
	case text == "" && len(r.InputRequests) > 0:
		return "error: the tool asks for something that nobody here can answer"
	case text == "" && r.IsError:
		return "error: the tool failed, and does not say why"
	case text == "":
		return "(no output)"
	case r.IsError && !strings.HasPrefix(strings.ToLower(text), "error"):
		return "error: " + text
	}
	return text
}

// content is one part of a result as text.
func content(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("[an image, %s of %d bytes, which cannot be shown]", c.MIMEType, len(c.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("[a sound, %s of %d bytes, which cannot be heard]", c.MIMEType, len(c.Data))
	case *sdk.ResourceLink:
		text := "[a resource: " + c.Name + ", " + c.URI
		if c.Description != "" {
			text += ": " + c.Description
		}
		return text + "]"
	case *sdk.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return ""
		case r.Text != "":
			return "[the resource " + r.URI + "]\n" + r.Text
		default:
			return fmt.Sprintf("[the resource %s, %s of %d bytes, which cannot be shown]", r.URI, r.MIMEType, len(r.Blob))
		}
	}
	return "[something that cannot be shown]"
}
