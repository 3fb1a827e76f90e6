/**
 * Language models inside an app's process. {@link io.tandem.LlmModule} answers prompts; {@link io.tandem.Engine} and
 * {@link io.tandem.Session} are what it is made of, for apps that want tokens, logits or several conversations.
 */
package io.tandem;
