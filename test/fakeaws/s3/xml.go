package s3

import (
	"encoding/xml"
	"net/http"
	"strings"
)

const declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// namespace is of all answers but errors.
const namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

func element(name, inner string) string { return "<" + name + ">" + inner + "</" + name + ">" }

func text(s string) string {
	var out strings.Builder
	// A builder takes all that is written to it.
	_ = xml.EscapeText(&out, []byte(s))
	return out.String()
}

func xmlAnswer(name, inner string) Answer {
	return Answer{
		Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: []byte(declaration + "<" + name + ` xmlns="` + namespace + `">` + inner + "</" + name + ">"),
	}
}
