# emppi_ros in a ROS 2 container, by the steps of README.md:
#   docker build -t emppi_ros .
#   docker run -it --rm emppi_ros ros2 launch emppi_ros emppi.launch.py task:=panda_push
# Kilted: docker build --build-arg ROS_DISTRO=kilted -t emppi_ros .
ARG ROS_DISTRO=jazzy
FROM ros:${ROS_DISTRO}

SHELL ["/bin/bash", "-c"]
# Ubuntu protects its Python packages; this container has no other user of them
ENV PIP_BREAK_SYSTEM_PACKAGES=1
WORKDIR /root/ws

RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-pip libegl1 libgl1-mesa-dri \
    && rm -rf /var/lib/apt/lists/*

COPY . src/emppi_ros
RUN apt-get update \
    && rosdep update --rosdistro "$ROS_DISTRO" \
    && rosdep install --from-paths src src/emppi_ros/emppi_msgs --ignore-src -y \
    && pip install -r src/emppi_ros/requirements.txt \
    && rm -rf /var/lib/apt/lists/*
RUN source "/opt/ros/$ROS_DISTRO/setup.bash" \
    && colcon build --base-paths src src/emppi_ros/emppi_msgs --packages-select emppi_ros emppi_msgs

# every command finds ROS and this package
RUN printf '%s\n' '#!/bin/bash' 'source /root/ws/install/setup.bash' 'exec "$@"' > /entrypoint.sh \
    && chmod +x /entrypoint.sh
ENTRYPOINT ["/entrypoint.sh"]
CMD ["bash"]
