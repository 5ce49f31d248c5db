package listing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resources writes what a container is held to. Many containers are held to the
// same: that stands in a listing once, and in the reader's memory too.
func (w *writer) resources(r *corev1.ResourceRequirements) {
	w.bool(r != nil)
	if r == nil {
		return
	}
	one := writer{words: map[string]uint64{}}
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		names := make([]string, 0, len(list))
		for name := range list {
			names = append(names, string(name))
		}
		slices.Sort(names)
		one.count(len(names), list == nil)
		for _, name := range names {
			q := list[corev1.ResourceName(name)]
			one.text(name)
			one.text(q.String())
		}
	}
	one.count(len(r.Claims), r.Claims == nil)
	for _, c := range r.Claims {
		one.text(c.Name)
		one.text(c.Request)
	}
	w.word(string(one.buf))
}

func (r *reader) resources() *corev1.ResourceRequirements {
	if !r.bool() {
		return nil
	}
	word := r.word()
	if known := r.held[word]; known != nil || r.err != nil {
		return known
	}
	one := reader{rest: []byte(word)}
	held := &corev1.ResourceRequirements{Requests: one.amounts(), Limits: one.amounts()}
	held.Claims = readSlice(&one, func(c *corev1.ResourceClaim) { c.Name, c.Request = one.text(), one.text() })
	if err := one.end(); err != nil {
		r.fail(err)
		return nil
	}
	if r.held == nil {
		r.held = map[string]*corev1.ResourceRequirements{}
	}
	r.held[word] = held
	return held
}

func (r *reader) amounts() corev1.ResourceList {
	type amount struct {
		name  corev1.ResourceName
		value resource.Quantity
	}
	all := readSlice(r, func(a *amount) {
		a.name = corev1.ResourceName(r.text())
		value, err := resource.ParseQuantity(r.text())
		if err != nil {
			r.fail(err)
		}
		a.value = value
	})
	if all == nil {
		return nil
	}
	list := corev1.ResourceList{}
	for _, a := range all {
		list[a.name] = a.value
	}
	return list
}
