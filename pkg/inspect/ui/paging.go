package ui

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

// paged returns one page of rows. For a page that does not exist it returns the nearest.
func paged[T any](rows []T, page int) ([]T, Paging) {
	p := Paging{Matching: len(rows), PageSize: pageSize, Of: max(1, (len(rows)+pageSize-1)/pageSize)}
	p.Page = min(max(page, 1), p.Of)
	first := (p.Page - 1) * pageSize
	return rows[first:min(first+pageSize, len(rows))], p
}

// Addresses of pages.

func poolLink(key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	return "/pools/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

func commitLink(id string) string {
	if id == "" {
		return ""
	}
	return "/commits/" + url.PathEscape(id)
}

func profileLink(name string) string { return "/profiles/" + url.PathEscape(name) }

func nodeLink(name string) string { return "/nodes/" + url.PathEscape(name) }

func searchLink(query string) string { return "/search?" + url.Values{"q": {query}}.Encode() }
