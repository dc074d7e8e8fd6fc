package view

import (
	"net/url"
	"strings"
)

// pageSize is the number of rows on a page.
const pageSize = 50

// Paging describes the shown part of a list.
type Paging struct {
	Matching int `json:"matching"` // items on all pages
	Page     int `json:"page"`     // parameter page, from 1
	PageSize int `json:"pageSize"` // items of a page
	Of       int `json:"pages"`    // their number
}

// selectPage returns one page of rows. For a page that does not exist it returns the nearest.
func selectPage[T any](rows []T, page int) ([]T, Paging) {
	p := Paging{Matching: len(rows), PageSize: pageSize, Of: max(1, (len(rows)+pageSize-1)/pageSize)}
	p.Page = min(max(page, 1), p.Of)
	first := (p.Page - 1) * pageSize
	return rows[first:min(first+pageSize, len(rows))], p
}

// Addresses of pages.

func PoolLink(key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	return "/pools/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

func CommitLink(id string) string {
	if id == "" {
		return ""
	}
	return "/commits/" + url.PathEscape(id)
}

func ProfileLink(name string) string { return "/profiles/" + url.PathEscape(name) }

func NodeLink(name string) string { return "/nodes/" + url.PathEscape(name) }

func SearchLink(query string) string { return "/search?" + url.Values{"q": {query}}.Encode() }
