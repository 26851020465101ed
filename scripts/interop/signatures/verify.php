<?php
// Verify and sign with the official library in PHP; scripts/interop_signatures.py writes and reads the lines.
foreach (glob(__DIR__ . "/vendored/php/*.php") as $file) {
    require $file;
}
while (($line = fgets(STDIN)) !== false) {
    [$secret, $id, $timestamp, $body64, $signature64] = explode(" ", trim($line));
    $body = base64_decode($body64);
    $webhook = new StandardWebhooks\Webhook($secret);
    $accepted = "true";
    try {
        $webhook->verify($body, [
            "webhook-id" => $id,
            "webhook-timestamp" => $timestamp,
            "webhook-signature" => base64_decode($signature64),
        ]);
    } catch (StandardWebhooks\Exception\WebhookVerificationException $refused) {
        $accepted = "false";
    }
    echo $accepted, " ", $webhook->sign($id, $timestamp, $body), "\n";
}
