package peeklock;

import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import java.util.List;

/** What administration shows of topics and their subscriptions. */
final class Subscriptions {
    private Subscriptions() {
    }

    static List<String> topics() {
        return daemon().overHttp().listTopics().stream().map(TopicProperties::getName).toList();
    }

    static List<String> of(String topic) {
        return daemon().overHttp().listSubscriptions(topic).stream().map(SubscriptionProperties::getSubscriptionName).toList();
    }

    private static Daemon daemon() {
        try {
            return Daemon.get();
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }
}
