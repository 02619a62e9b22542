package sampleshop

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
)

//go:embed web
var web embed.FS

// views are the shop's pages by name.
type views map[string]*template.Template

// parseViews reads the pages, each with the common frame around it.
func parseViews() (views, error) {
	out := make(views)
	for _, name := range []string{"front", "item", "order", "message"} {
		t, err := template.ParseFS(web, "web/frame.html", "web/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("reading page %s: %w", name, err)
		}
		out[name] = t
	}
	return out, nil
}

type frontView struct{ Items []Item }

type itemView struct {
	Item
	Prefix string
}

type orderView struct {
	Order
	Item Item
}

type messageView struct{ Title, Text string }

// show writes a page; nothing is sent when the page cannot be made.
func (s *Shop) show(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := s.views[name].ExecuteTemplate(&b, "frame", data); err != nil {
		s.log.Error("sample shop: making a page", "page", name, "error", err)
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the reader is gone: nothing to do
}

func (s *Shop) front(w http.ResponseWriter, r *http.Request) {
	if err := s.welcome(w, r); err != nil {
		s.broken(w, "signing a visitor in", err)
		return
	}
	s.show(w, http.StatusOK, "front", frontView{s.opt.Items})
}

func (s *Shop) item(w http.ResponseWriter, r *http.Request) {
	it, ok := s.items[r.PathValue("id")]
	if !ok {
		s.notFound(w)
		return
	}
	if err := s.welcome(w, r); err != nil {
		s.broken(w, "signing a visitor in", err)
		return
	}
	s.show(w, http.StatusOK, "item", itemView{it, s.opt.Prefix})
}

func (s *Shop) notFound(w http.ResponseWriter) {
	s.show(w, http.StatusNotFound, "message", messageView{"Nothing here", "We have no such page, or it belongs to another visitor."})
}

// broken reports a fault of the shop itself; the cause goes to the log only.
func (s *Shop) broken(w http.ResponseWriter, act string, err error) {
	s.log.Error("sample shop: "+act, "error", err)
	s.refuse(w, http.StatusInternalServerError)
}

// refuse answers with a status and a sentence that fits it.
func (s *Shop) refuse(w http.ResponseWriter, status int) {
	s.show(w, status, "message", messageView{titleOf(status), refusalText(status)})
}

func titleOf(status int) string {
	if t := http.StatusText(status); t != "" {
		return t
	}
	return "Status " + strconv.Itoa(status)
}

func refusalText(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "Orders come to this shop through its sale pages only. Please start from the item's page."
	case http.StatusPaymentRequired:
		return "The payment was not accepted, so no order was made."
	case http.StatusConflict:
		return "The shop is still busy with this order. Please look again in a moment."
	case http.StatusGone:
		return "The time to complete this order has passed, so no order was made."
	case http.StatusUnprocessableEntity:
		return "The shop could not accept this order, so none was made."
	case http.StatusBadRequest:
		return "The shop could not read this order."
	}
	if status >= 500 {
		return "Something went wrong on our side. Please look again in a moment."
	}
	return "The shop did not accept this order."
}

// assets serves web/assets.
func (s *Shop) assets() http.Handler {
	files, err := fs.Sub(web, "web/assets")
	if err != nil { // only for a path that is not valid
		panic(err)
	}
	next := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=300")
		next.ServeHTTP(w, r)
	})
}

// secured adds the headers that every answer carries.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
