// Run by scripts/interop_clients.py beside the package that oapi-codegen generates: publish, subscribe, rotate, list. It
// prints as JSON what it got.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"

	"interop/hookwire"
)

func main() {
	url, callback := os.Args[1], os.Args[2]
	ctx := context.Background()
	login := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer hwk_of_nobody")
		return nil
	}
	client, err := hookwire.NewClientWithResponses(url, hookwire.WithRequestEditorFn(login))
	check(err)

	topic, key := "orders", "k"
	made, err := client.SubscriptionsCreateWithResponse(
		ctx, &hookwire.SubscriptionsCreateParams{}, hookwire.SubscriptionIn{Topic: &topic, Callback: callback},
	)
	check(err)
	published, err := client.EventsPublishWithResponse(
		ctx, topic, &hookwire.EventsPublishParams{HookwireKey: &key}, map[string]int{"order": 4711},
	)
	check(err)
	refused, err := client.EventsPublishWithResponse(ctx, "a..b", &hookwire.EventsPublishParams{}, 1)
	check(err)
	events := []hookwire.BatchEvent{{Key: &key, Data: map[string]int{"order": 1}}, {Key: &key, Data: map[string]int{"order": 2}}}
	batch, err := client.EventsPublishBatchWithResponse(ctx, topic, &hookwire.EventsPublishBatchParams{}, events)
	check(err)
	rotated, err := client.SubscriptionsRotateKeyWithResponse(
		ctx, made.JSON201.Id, &hookwire.SubscriptionsRotateKeyParams{}, hookwire.SigningKeyIn{},
	)
	check(err)
	keys, err := client.SubscriptionsListKeysWithResponse(ctx, made.JSON201.Id)
	check(err)
	event, err := client.EventsGetWithResponse(ctx, published.JSON202.Id)
	check(err)
	subscriptions, err := client.SubscriptionsListWithResponse(ctx, &hookwire.SubscriptionsListParams{})
	check(err)
	waiting := hookwire.DeliveriesListUndeliveredParamsOutcome("waiting")
	undelivered, err := client.DeliveriesListUndeliveredWithResponse(
		ctx, &hookwire.DeliveriesListUndeliveredParams{Outcome: &waiting},
	)
	check(err)

	numbers, states, outcomes := []int{}, [][]any{}, []any{}
	for _, one := range *batch.JSON202 {
		outcomes = append(outcomes, one.Outcome)
	}
	for _, one := range keys.JSON200.Items {
		numbers = append(numbers, one.Number)
	}
	for _, one := range subscriptions.JSON200.Items {
		states = append(states, []any{one.Id == made.JSON201.Id, one.State})
	}
	problem := refused.ApplicationproblemJSON422
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"event":         []any{event.JSON200.Topic, event.JSON200.Key, event.JSON200.Payload},
		"refused":       []any{problem.Status, problem.Type[strings.LastIndex(problem.Type, "/")+1:]},
		"batch":         outcomes,
		"rotated":       rotated.JSON201.Number,
		"keys":          numbers,
		"subscriptions": states,
		"undelivered":   undelivered.JSON200 != nil,
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
