// Package native converts values of Parquet files, where the library returns others than were written.
package native

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Of converts a value of a node: the library returns numbers of unsigned columns as signed, and inside maps (the type MAP) text as
// bytes, optional values as pointers, and groups, lists and further maps as structs.
func Of(node parquet.Node, v any) any {
	switch v := v.(type) {
	case nil, string, *big.Float: // a decimal number of many digits
	case map[string]any:
		if value := valueOfMap(node); value != nil {
			for key := range v {
				v[key] = Of(value, v[key])
			}
			return v
		}
		for _, field := range node.Fields() {
			if value, there := v[field.Name()]; there {
				v[field.Name()] = Of(field, value)
			}
		}
	case []any:
		node = elementOf(node)
		for i := range v {
			v[i] = Of(node, v[i])
		}
	case []byte:
		return string(v)
	case int32:
		if withoutSign(node) {
			return uint32(v)
		}
	case int64:
		if withoutSign(node) {
			return uint64(v)
		}
	default:
		return inMap(node, reflect.ValueOf(v))
	}
	return v
}

// inMap is Of for the types that the library uses only inside maps.
func inMap(node parquet.Node, v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		return Of(node, v.Elem().Interface())
	case v.Kind() == reflect.Slice:
		node, list := elementOf(node), make([]any, v.Len())
		for i := range list {
			list[i] = Of(node, v.Index(i).Interface())
		}
		return list
	case v.Kind() == reflect.Struct && valueOfMap(node) != nil:
		entries := map[string]any{}
		for _, entry := range items(node, v) {
			entries[fmt.Sprint(entry["key"])] = entry["value"]
		}
		return entries
	case v.Kind() == reflect.Struct && isList(node):
		list := []any{}
		for _, item := range items(node, v) {
			for _, element := range item {
				list = append(list, element)
			}
		}
		return list
	case v.Kind() == reflect.Struct && !node.Leaf():
		return group(node, v)
	}
	return v.Interface()
}

// group makes an object of a struct.
func group(node parquet.Node, v reflect.Value) map[string]any {
	object := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("parquet"), ",")
		for _, field := range node.Fields() {
			if field.Name() == name {
				object[name] = Of(field, v.Field(i).Interface())
			}
		}
	}
	return object
}

// items are the repeated groups inside a map or a list, which are the one field of its struct.
func items(node parquet.Node, v reflect.Value) []map[string]any {
	repeated := v.Field(0)
	all := make([]map[string]any, repeated.Len())
	for i := range all {
		all[i] = group(node.Fields()[0], repeated.Index(i))
	}
	return all
}

// valueOfMap is the node of a map's values, or nil if node is no map.
func valueOfMap(node parquet.Node) parquet.Node {
	if node.Leaf() || len(node.Fields()) != 1 || len(node.Fields()[0].Fields()) != 2 || node.Type().LogicalType() == nil {
		return nil
	}
	if _, is := node.Type().LogicalType().Value.(*format.MapType); !is {
		return nil
	}
	return node.Fields()[0].Fields()[1]
}

// isList reports whether a node is a list group, whose elements are two levels down.
func isList(node parquet.Node) bool {
	return !node.Leaf() && len(node.Fields()) == 1 && node.Fields()[0].Repeated() && len(node.Fields()[0].Fields()) == 1
}

// elementOf is the node of a list's elements.
func elementOf(node parquet.Node) parquet.Node {
	if isList(node) {
		return node.Fields()[0].Fields()[0]
	}
	return node
}

func withoutSign(node parquet.Node) bool {
	if !node.Leaf() || node.Type().LogicalType() == nil {
		return false
	}
	kind, ok := node.Type().LogicalType().Value.(*format.IntType)
	return ok && !kind.IsSigned
}
